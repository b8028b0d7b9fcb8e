# Reference values of robust errors, tests, predictions and marginal means.
#
#   Rscript inference.R    in this folder; writes inference.json and the tables.
#
# swiss: R's datasets, from Mosteller and Tukey (1977), Data Analysis and Regression.
# birthwt, epil: package MASS, from Hosmer and Lemeshow (1989), Applied Logistic
#   Regression, and from Thall and Vail (1990), Biometrics 46.
# ChickWeight: R's datasets, from Crowder and Hand (1990), Analysis of Repeated Measures.
suppressMessages({library(sandwich); library(MASS)})
strict <- glm.control(epsilon = 1e-15, maxit = 200)
# Gamma with a log link comes closer by a factor a step, and stops where the deviance
# tells no more: some more steps, each from where the last one ended.
settled <- function(...) {
  model <- glm(..., control = strict)
  for (k in 1:12) model <- glm(..., control = strict, start = coef(model))
  model
}

swiss <- data.frame(swiss)
names(swiss) <- c("fertility", "agriculture", "examination", "education", "catholic",
                  "mortality")
birthwt <- data.frame(birthwt)
chicks <- data.frame(weight = ChickWeight$weight, time = ChickWeight$Time,
                     chick = as.character(ChickWeight$Chick))
epil <- data.frame(y = epil$y, lage = round(epil$lage, 6), period = epil$period,
                   lbase = round(epil$lbase, 6), subject = epil$subject)
write.csv(swiss, "inference_swiss.csv", row.names = FALSE)
write.csv(birthwt, "inference_birthwt.csv", row.names = FALSE)
write.csv(chicks, "inference_chicks.csv", row.names = FALSE)
write.csv(epil, "inference_epil.csv", row.names = FALSE)

numbers <- function(x) paste0("[", paste(sprintf("%.17g", as.vector(x)), collapse = ", "), "]")
found <- list()
keep <- function(name, x) found[[name]] <<- numbers(x)
robust <- function(name, model) {
  keep(paste0(name, " coefficients"), coef(model))
  for (type in c("HC0", "HC1", "HC2", "HC3"))
    keep(paste(name, type), sqrt(diag(vcovHC(model, type = type))))
}

fertile <- lm(fertility ~ education + agriculture + catholic, swiss)
robust("swiss", fertile)
robust("swiss weighted", lm(fertility ~ education + agriculture, swiss,
                            weights = swiss$mortality))
low <- glm(low ~ age + lwt + factor(race) + smoke, binomial, birthwt, control = strict)
robust("birthwt logistic", low)
risk <- glm(low ~ lwt + smoke, poisson, birthwt, control = strict)
robust("birthwt poisson", risk)
heavy <- settled(bwt ~ lwt + factor(race) + smoke, Gamma(link = "log"), birthwt)
robust("birthwt gamma", heavy)

# Clustered by party: the usual correction, G/(G-1) (n-1)/(n-p).
growth <- lm(weight ~ time + I(time^2), chicks)
keep("chicks cluster", sqrt(diag(vcovCL(growth, cluster = chicks$chick, type = "HC1"))))
seizures <- glm(y ~ lbase + lage + period, poisson, epil, control = strict)
keep("epil cluster", sqrt(diag(vcovCL(seizures, cluster = epil$subject, type = "HC1"))))

# Linear hypotheses: education = agriculture, catholic = 0.1; and of the logistic fit
# age = 0, both races together.
wald <- function(model, R, q, V = vcov(model)) {
  away <- R %*% coef(model) - q
  drop(t(away) %*% solve(R %*% V %*% t(R)) %*% away)
}
R <- rbind(c(0, 1, -1, 0), c(0, 0, 0, 1))
F <- wald(fertile, R, c(0, 0.1)) / 2
keep("swiss wald", c(F, pf(F, 2, fertile$df.residual, lower.tail = FALSE)))
F <- wald(fertile, R, c(0, 0.1), vcovHC(fertile, type = "HC3")) / 2
keep("swiss wald HC3", c(F, pf(F, 2, fertile$df.residual, lower.tail = FALSE)))
W <- wald(low, rbind(c(0, 1, 0, 0, 0, 0), c(0, 0, 0, 1, 0, 0), c(0, 0, 0, 0, 1, 0)), 0)
keep("birthwt wald", c(W, pchisq(W, 3, lower.tail = FALSE)))

# Nested fits.
less <- lm(fertility ~ education, swiss)
F <- anova(less, fertile)
keep("swiss f", c(F$F[2], F$`Pr(>F)`[2]))
L <- 2 * (logLik(fertile) - logLik(less))
keep("swiss lr", c(L, pchisq(L, 2, lower.tail = FALSE)))
keep("swiss score", nrow(swiss) * summary(lm(resid(less) ~ education + agriculture +
                                             catholic, swiss))$r.squared)
less <- glm(low ~ age + lwt, binomial, birthwt, control = strict)
A <- anova(less, low, test = "LRT")
keep("birthwt lr", c(A$Deviance[2], A$`Pr(>Chi)`[2]))
less <- settled(bwt ~ lwt, Gamma(link = "log"), birthwt)
A <- anova(less, heavy, test = "F")
keep("gamma f", c(A$F[2], A$`Pr(>F)`[2]))
A <- anova(less, heavy, test = "LRT")
keep("gamma lr", c(A$Deviance[2] / summary(heavy)$dispersion, A$`Pr(>Chi)`[2]))

# BIC without the dispersion, as statsmodels counts; ratios with Wald intervals.
keep("swiss bic", -2 * logLik(fertile) + log(nrow(swiss)) * 4)
keep("birthwt bic", BIC(low))
keep("birthwt odds", exp(cbind(coef(low), confint.default(low, level = 0.9))))

# Predictions for the first rows.
new <- swiss[1:4, ]
keep("swiss prediction", predict(fertile, new, interval = "prediction", level = 0.9))
keep("swiss confidence", predict(fertile, new, interval = "confidence", level = 0.9))
p <- predict(low, birthwt[1:4, ], type = "response", se.fit = TRUE)
keep("birthwt prediction", c(p$fit, p$se.fit))
p <- predict(low, birthwt[1:4, ], type = "link", se.fit = TRUE)
keep("birthwt ends", plogis(cbind(p$fit - qnorm(0.975) * p$se.fit,
                                  p$fit + qnorm(0.975) * p$se.fit)))

# Marginal means of smoke: numbers at their means, races alike.
weight <- lm(bwt ~ age + lwt + factor(race) * factor(smoke), birthwt)
grid <- expand.grid(race = 1:3, smoke = 0:1, age = mean(birthwt$age),
                    lwt = mean(birthwt$lwt))
X <- model.matrix(~ age + lwt + factor(race) * factor(smoke), grid)
L <- rbind(colMeans(X[1:3, ]), colMeans(X[4:6, ]))
keep("birthwt means", c(L %*% coef(weight), sqrt(diag(L %*% vcov(weight) %*% t(L)))))

lines <- paste0('  "', names(found), '": ', unlist(found), collapse = ",\n")
writeLines(c("{", lines, "}"), "inference.json")
