# Reference values of tests/questions/test_cox.py: Rscript cox.R, in this folder.
# R 4.5, package survival. Data: survival::gbsg (German Breast Cancer Study Group;
# Schumacher et al. 1994), four parties by the number of the patient; days, with ties.
# And survival::retinopathy (Diabetic Retinopathy Study; Huster et al. 1989), each kind
# of laser and of diabetes a party; months, with two decimals.
library(survival)

gbsg_rows <- data.frame(
  site = paste0("s", gbsg$pid %% 4), time = gbsg$rfstime, event = gbsg$status,
  age = gbsg$age, size = gbsg$size, nodes = gbsg$nodes, hormon = gbsg$hormon,
  grade = paste0("g", gbsg$grade))
retinopathy_rows <- with(retinopathy, data.frame(
  site = paste0(laser, "-", type), time = futime, event = status,
  age = age, eye = as.character(eye), trt = trt, risk = risk))
write.csv(gbsg_rows, "cox_gbsg.csv", row.names = FALSE, quote = FALSE)
write.csv(retinopathy_rows, "cox_retinopathy.csv", row.names = FALSE, quote = FALSE)

digits <- function(x) if (is.list(x)) lapply(x, digits) else formatC(unname(c(x)), digits = 17, format = "g")
stratified <- function(right, rows, ties) {
  fit <- coxph(as.formula(paste("Surv(time, event) ~", right, "+ strata(site)")), rows,
               ties = ties, control = coxph.control(eps = 1e-14, toler.chol = 1e-15, iter.max = 100))
  list(coef = coef(fit), se = sqrt(diag(vcov(fit))), loglik = fit$loglik,
       wald = fit$wald.test, score = fit$score, n = fit$n, events = fit$nevent)
}
binned <- function(right, rows, cuts) {
  pieces <- survSplit(Surv(time, event) ~ ., rows, cut = cuts, episode = "bin")
  pieces <- subset(pieces, bin <= length(cuts))
  pieces$spent <- pieces$time - pieces$tstart
  pieces$index <- pieces$bin - 1
  tight <- glm.control(epsilon = 1e-15, maxit = 100)
  side <- paste("event ~ factor(bin) +", right, "+ offset(log(spent))")
  fit <- glm(as.formula(side), poisson, pieces, control = tight)
  # glm's own errors are those of the step before the last.
  fit <- update(fit, start = coef(fit))
  errors <- sqrt(diag(solve(crossprod(model.matrix(fit), model.matrix(fit) * fitted(fit)))))
  names <- setdiff(names(coef(fit)), grep("bin|Intercept", names(coef(fit)), value = TRUE))
  X <- model.matrix(fit)[, names, drop = FALSE] * pieces$index
  rao <- function(extra) {
    # The score test by hand: anova(test = "Rao") takes one step of Fisher's scoring.
    Z <- cbind(model.matrix(fit), extra)
    mu <- fitted(fit)
    U <- crossprod(Z, pieces$event - mu)
    drop(crossprod(U, solve(crossprod(Z, Z * mu), U)))
  }
  hazard <- exp(coef(fit)[1] + c(0, coef(fit)[2:length(cuts)]))
  list(coef = coef(fit), se = errors, loglik = as.numeric(logLik(fit)),
       aic = AIC(fit), hazard = hazard,
       each = sapply(seq_along(names), function(k) rao(X[, k])), all = rao(X),
       anova = anova(fit, update(fit, . ~ . + X, start = NULL), test = "Rao")$Rao[2])
}
both <- function(right, rows, cuts) list(
  efron = stratified(right, rows, "efron"), breslow = stratified(right, rows, "breslow"),
  bins = binned(right, rows, cuts))
# One party's patients all have one age and one grade (R 4.2, survival 3.5-3).
right <- "age + size + nodes + hormon + grade"
constant_rows <- within(gbsg_rows, { age[site == "s1"] <- 50; grade[site == "s1"] <- "g2" })
found <- list(
  gbsg = both("age + size + nodes + hormon + grade", gbsg_rows, c(365, 730, 1100, 2700)),
  retinopathy = both("age + trt + risk + eye", retinopathy_rows, c(10, 25, 60)),
  constant = list(efron = stratified(right, constant_rows, "efron"), breslow = stratified(right, constant_rows, "breslow")))
# Lists of numbers, in plain JSON.
plain <- function(x) if (is.list(x)) paste0("{", paste0('"', names(x), '": ', sapply(x, plain), collapse = ",\n "), "}") else
  paste0("[", paste(digits(x), collapse = ", "), "]")
writeLines(plain(found), "cox.json")
