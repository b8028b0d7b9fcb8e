# Reference values of multinomial and ordinal regressions.
#
#   Rscript choices.R    in this folder; writes choices.json and the tables.
#
# Womenlf, BEPS, WVS: package carData, from Social Change in Canada Project (1977), the
#   British Election Panel Study 1997-2001, and the World Values Survey 1995-1997.
# housing: package MASS, from Madsen (1976), Scandinavian Journal of Statistics 3.
suppressMessages({library(nnet); library(MASS); library(carData)})
women <- data.frame(Womenlf)
beps <- data.frame(vote = BEPS$vote, age = BEPS$age, europe = BEPS$Europe,
                   economy = BEPS$economic.cond.national, gender = BEPS$gender)
wvs <- data.frame(WVS)[seq(1, nrow(WVS), 4), c("poverty", "religion", "degree", "age",
                                                "gender")]
long <- housing[rep(seq_len(nrow(housing)), housing$Freq), c("Sat", "Infl", "Type", "Cont")]
long <- long[order((seq_len(nrow(long)) * 7) %% 11), ]
write.csv(women, "choices_women.csv", row.names = FALSE)
write.csv(beps, "choices_beps.csv", row.names = FALSE)
write.csv(wvs, "choices_wvs.csv", row.names = FALSE)
write.csv(long, "choices_housing.csv", row.names = FALSE)

numbers <- function(x) paste0("[", paste(sprintf("%.17g", as.vector(x)), collapse = ", "), "]")
found <- list()
keep <- function(name, x) found[[name]] <<- numbers(x)
# Some more runs, each from where the last one ended: neither goes all the way at once.
chosen <- function(name, formula, data) {
  model <- multinom(formula, data, maxit = 10000, reltol = 1e-20, abstol = 1e-20,
                    Hess = TRUE, trace = FALSE)
  keep(paste(name, "coefficients"), t(coef(model)))
  keep(paste(name, "errors"), sqrt(diag(vcov(model))))
  keep(paste(name, "log-likelihood"), logLik(model))
  keep(paste(name, "chances"), t(fitted(model)[1:3, ]))
}
ranked <- function(name, formula, data) {
  strict <- list(maxit = 10000, reltol = 1e-20)
  model <- polr(formula, data, Hess = TRUE, control = strict)
  for (k in 1:5)
    model <- polr(formula, data, Hess = TRUE, control = strict,
                  start = c(coef(model), model$zeta))
  keep(paste(name, "coefficients"), c(coef(model), model$zeta))
  keep(paste(name, "errors"), sqrt(diag(vcov(model))))
  keep(paste(name, "log-likelihood"), logLik(model))
  keep(paste(name, "chances"), t(fitted(model)[1:3, ]))
}
women$partic <- factor(women$partic, c("not.work", "parttime", "fulltime"))
chosen("women", partic ~ hincome + children, women)
chosen("beps", vote ~ age + europe + economy + gender, beps)
wvs$poverty <- factor(wvs$poverty, c("Too Little", "About Right", "Too Much"), ordered = TRUE)
ranked("wvs", poverty ~ age + religion + degree + gender, wvs)
long$Sat <- factor(long$Sat, c("Low", "Medium", "High"), ordered = TRUE)
ranked("housing", Sat ~ Infl + Type + Cont, transform(long,
  Infl = factor(Infl, c("Low", "Medium", "High")),
  Type = factor(Type, c("Tower", "Apartment", "Atrium", "Terrace")),
  Cont = factor(Cont, c("Low", "High"))))
lines <- paste0("  \"", names(found), "\": ", unlist(found))
writeLines(c("{", paste(lines, collapse = ",\n"), "}"), "choices.json")
