# Reference values of tests/jobs: test_dispersion.py, test_score.py, test_cox.py and
# test_further_families.py.
#
#   Rscript models.R    in this folder; writes models.json and the tables.
#
# quine: package MASS, days absent from school (Aitkin 1978, JRSS A 141).
# warpbreaks: R's datasets, breaks of yarn per loom (Tukey 1977, EDA).
# infert: R's datasets, infertility after abortion (Trichopoulos et al. 1976).
# HMDA: package AER, refused mortgages in Boston (Munnell et al. 1996, AER 86).
# birthwt: package MASS, in inference_birthwt.csv already; gbsg: in cox_gbsg.csv.
suppressMessages({library(MASS); library(sandwich)})
strict <- glm.control(epsilon = 1e-15, maxit = 200)

quine <- with(quine, data.frame(days = Days, eth = as.character(Eth), sex = as.character(Sex),
  age = as.character(Age), lrn = as.character(Lrn)))
warp <- with(warpbreaks, data.frame(breaks = breaks, wool = as.character(wool),
  tension = as.character(tension)))
infert <- with(infert, data.frame(case = case, age = age, parity = parity,
  induced = induced, spontaneous = spontaneous))
write.csv(quine, "models_quine.csv", row.names = FALSE, quote = FALSE)
write.csv(warp, "models_warp.csv", row.names = FALSE, quote = FALSE)
write.csv(infert, "models_infert.csv", row.names = FALSE, quote = FALSE)
birthwt <- data.frame(birthwt)
gbsg <- read.csv("cox_gbsg.csv")

numbers <- function(x) paste0("[", paste(sprintf("%.17g", as.vector(x)), collapse = ", "), "]")
found <- list()
keep <- function(name, x) found[[name]] <<- numbers(x)

# glm.nb stops where the likelihood changes by 1e-8 of itself: go on from there, by
# turns, until nothing moves.
settled <- function(formula, data) {
  model <- glm.nb(formula, data, control = glm.control(epsilon = 1e-14, maxit = 200))
  theta <- model$theta
  for (k in 1:60) {
    part <- glm(formula, negative.binomial(theta), data, control = strict, start = coef(model))
    part <- glm(formula, negative.binomial(theta), data, control = strict, start = coef(part))
    theta <- theta.ml(model$y, fitted(part), limit = 200, eps = 1e-15)
    model$coefficients <- coef(part)
  }
  list(model = part, theta = as.numeric(theta), error = attr(theta, "SE"))
}
counted <- function(name, formula, data) {
  one <- settled(formula, data)
  mu <- fitted(one$model); th <- one$theta; y <- one$model$y
  X <- model.matrix(one$model)
  ll <- sum(dnbinom(y, size = th, mu = mu, log = TRUE))
  keep(paste(name, "coefficients"), coef(one$model))
  keep(paste(name, "errors"), sqrt(diag(solve(crossprod(X, X * (mu / (1 + mu / th)))))))
  keep(paste(name, "theta"), c(th, one$error))
  keep(paste(name, "fit"), c(ll, 2 * (ncol(X) + 1) - 2 * ll, one$model$deviance,
                             one$model$null.deviance))
  ll
}
larger <- counted("quine", days ~ eth + sex + age + lrn, quine)
smaller <- counted("quine less", days ~ eth + age, quine)
keep("quine lr", c(2 * (larger - smaller), pchisq(2 * (larger - smaller), 2, lower.tail = FALSE)))
counted("warp", breaks ~ wool + tension, warp)

# Score tests: what further columns would add, at the fit without them.
rao <- function(name, less, more, family, data) {
  small <- glm(less, family, data, control = strict)
  small <- glm(less, family, data, control = strict, start = coef(small))
  big <- glm(more, family, data, control = strict)
  A <- anova(small, big, test = "Rao")
  keep(paste(name, "anova"), c(A$Rao[2], A$`Pr(>Chi)`[2], A$Df[2], summary(big)$dispersion,
                               summary(small)$dispersion))
  Z <- model.matrix(big)
  eta <- predict(small, type = "link"); mu <- fitted(small)
  slope <- small$family$mu.eta(eta); v <- small$family$variance(mu)
  U <- crossprod(Z, (small$y - mu) * slope / v)
  I <- crossprod(Z, Z * (slope^2 / v))
  keep(paste(name, "score"), drop(crossprod(U, solve(I, U))) / summary(small)$dispersion)
}
less <- case ~ age + parity
more <- case ~ age + parity + induced + spontaneous
rao("infert logistic", less, more, binomial(), infert)
rao("infert probit", less, more, binomial("probit"), infert)
rao("quine poisson", days ~ eth + age, days ~ eth + age + sex + lrn, poisson(), quine)
rao("quine fixed", days ~ eth + age, days ~ eth + age + sex + lrn, negative.binomial(1.5), quine)
rao("quine quasi", days ~ eth + age, days ~ eth + age + sex + lrn, quasipoisson(), quine)

# Cox over agreed times: nested Poisson regressions of pieces.
suppressMessages(library(survival))
pieces <- survSplit(Surv(time, event) ~ ., gbsg, cut = c(365, 730, 1100, 2700), episode = "bin")
pieces <- subset(pieces, bin <= 4)
pieces$spent <- pieces$time - pieces$tstart
piece <- function(right) glm(as.formula(paste("event ~ factor(bin) +", right,
  "+ offset(log(spent))")), poisson, pieces, control = strict)
A <- anova(piece("age + size"), piece("age + size + nodes + hormon + grade"), test = "LRT")
keep("gbsg lr", c(A$Deviance[2], A$`Pr(>Chi)`[2], A$Df[2]))

# Inverse-propensity weights; errors HC0, the weights taken as they are.
weighed <- function(name, propensity, outcome, family, data) {
  first <- glm(propensity, binomial, data, control = strict)
  first <- glm(propensity, binomial, data, control = strict, start = coef(first))
  t <- first$y; p <- fitted(first); share <- mean(t)
  keep(paste(name, "propensity"), coef(first))
  of <- list(ate = t / p + (1 - t) / (1 - p), att = t + (1 - t) * p / (1 - p),
             stabilised = t * share / p + (1 - t) * (1 - share) / (1 - p))
  for (kind in names(of)) {
    data$w <- of[[kind]]
    model <- if (family == "gaussian") lm(outcome, data, weights = w) else {
      start <- suppressWarnings(glm(outcome, family, data, weights = w, control = strict))
      suppressWarnings(glm(outcome, family, data, weights = w, control = strict, start = coef(start)))
    }
    keep(paste(name, kind, "coefficients"), coef(model))
    keep(paste(name, kind, "HC0"), sqrt(diag(vcovHC(model, type = "HC0"))))
    keep(paste(name, kind, "weights"), c(sum(data$w), max(data$w), sum(data$w)^2 / sum(data$w^2)))
  }
}
weighed("birthwt", smoke ~ age + lwt + factor(race) + ptl, bwt ~ smoke, "gaussian", birthwt)
weighed("gbsg", hormon ~ age + size + nodes + grade, event ~ hormon + nodes, "binomial", gbsg)

# Complementary log-log with one predictor of 7.6, whose chance is 1 as float64 goes.
data("HMDA", package = "AER")
hmda <- with(HMDA, data.frame(deny = as.integer(deny == "yes"), pirat = round(pirat, 4),
  lvrat = round(lvrat, 4), afam = as.character(afam)))
write.csv(hmda, "models_hmda.csv", row.names = FALSE, quote = FALSE)
model <- suppressWarnings(glm(deny ~ pirat + lvrat + afam, binomial("cloglog"), hmda,
                              control = strict))
keep("hmda coefficients", coef(model))
keep("hmda errors", sqrt(diag(vcov(model))))
keep("hmda fit", c(logLik(model), model$deviance, model$null.deviance, max(predict(model))))

lines <- paste0('  "', names(found), '": ', unlist(found), collapse = ",\n")
writeLines(c("{", lines, "}"), "models.json")
