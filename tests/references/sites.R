# Reference values for fits with an effect of every party, mixed models, meta-analysis.
#
# Data: lme4::sleepstudy (Belenky et al. 2003: reaction times of 18 subjects on ten
# days), MASS::nlschools (Snijders and Bosker 1999: language scores of Dutch pupils;
# the first 50 classes with 12 pupils or more) and nlme::Oxboys (Goldstein 1987: heights
# of 26 boys from Oxford on nine occasions, age standardised; random effects are twelve
# times as large as residuals).
#
#   Rscript sites.R     writes sites_sleep.csv, sites_schools.csv, sites_oxboys.csv
#                       and sites.json
library(lme4)
options(digits = 17)

sleep <- data.frame(
  party = paste0("s", sleepstudy$Subject), y = sleepstudy$Reaction,
  x = sleepstudy$Days
)
sizes <- table(MASS::nlschools$class)
kept <- names(sizes)[sizes >= 12][1:50]
school <- MASS::nlschools[MASS::nlschools$class %in% kept, ]
school <- data.frame(
  party = paste0("c", as.character(school$class)), lang = school$lang,
  iq = school$IQ, ses = school$SES
)
boys <- data.frame(
  party = paste0("b", as.character(nlme::Oxboys$Subject)), age = nlme::Oxboys$age,
  height = nlme::Oxboys$height
)
write.csv(boys, "sites_oxboys.csv", row.names = FALSE, quote = FALSE)
write.csv(sleep, "sites_sleep.csv", row.names = FALSE, quote = FALSE)
write.csv(school, "sites_schools.csv", row.names = FALSE, quote = FALSE)

text <- function(x) {
  if (is.list(x)) {
    inner <- mapply(function(k, v) paste0('"', k, '": ', text(v)), names(x), x)
    return(paste0("{", paste(inner, collapse = ",\n"), "}"))
  }
  if (is.character(x)) return(paste0('"', x, '"'))
  if (length(x) == 1) return(sprintf("%.17g", x))
  paste0("[", paste(sprintf("%.17g", x), collapse = ", "), "]")
}

# A dummy variable for every party.
absorbed <- function(formula, data, names, weights = NULL) {
  data$w <- if (is.null(weights)) 1 else weights
  fit <- lm(update(formula, . ~ . + factor(party)), data = data, weights = w)
  table <- coef(summary(fit))[names, , drop = FALSE]
  list(
    coefficients = unname(table[, 1]), errors = unname(table[, 2]),
    p = unname(table[, 4]), df = fit$df.residual, sigma = summary(fit)$sigma,
    loglik = as.numeric(logLik(fit))
  )
}

# lme4's fit, and theta then made exact: the gradient of lme4's criterion, by formulas,
# is brought to 0 by Newton's method. Dense matrices of one party at a time.
mixed <- function(formula, data, random, reml) {
  control <- lmerControl(
    optimizer = "bobyqa", optCtrl = list(rhoend = 1e-11, maxfun = 1e5),
    calc.derivs = FALSE
  )
  spec <- update(formula, paste(". ~ . + (", random, "| party)"))
  fit <- lmer(spec, data = data, REML = reml, control = control)
  X <- model.matrix(formula, data)
  y <- data[[all.vars(formula)[1]]]
  Z <- model.matrix(as.formula(paste("~", random)), data)
  q <- ncol(Z); n <- nrow(X); p <- ncol(X)
  groups <- split(seq_len(n), data$party)
  at <- function(theta) {
    L <- matrix(0, q, q); L[lower.tri(L, TRUE)] <- theta
    k <- length(theta)
    S <- matrix(0, p + 1, p + 1); D <- rep(list(S), k); logdet <- 0; t <- numeric(k)
    for (g in groups) {
      Zi <- Z[g, , drop = FALSE]; A <- cbind(X[g, , drop = FALSE], y[g])
      V <- diag(length(g)) + Zi %*% L %*% t(L) %*% t(Zi)
      W <- solve(V)
      S <- S + t(A) %*% W %*% A
      logdet <- logdet + as.numeric(determinant(V)$modulus)
      for (j in seq_len(k)) {
        E <- matrix(0, q, q); E[lower.tri(E, TRUE)][j] <- 1
        T <- E %*% t(L) + L %*% t(E)
        M <- t(A) %*% W %*% Zi
        D[[j]] <- D[[j]] - M %*% T %*% t(M)
        t[j] <- t[j] + sum(diag(W %*% Zi %*% T %*% t(Zi)))
      }
    }
    XX <- S[1:p, 1:p, drop = FALSE]
    beta <- solve(XX, S[1:p, p + 1])
    r2 <- S[p + 1, p + 1] - sum(beta * S[1:p, p + 1])
    df <- if (reml) n - p else n
    u <- c(-beta, 1)
    gradient <- sapply(seq_len(k), function(j) {
      part <- t[j] + df * sum(u * (D[[j]] %*% u)) / r2
      if (reml) part <- part + sum(diag(solve(XX, D[[j]][1:p, 1:p, drop = FALSE])))
      part
    })
    criterion <- logdet + df * (1 + log(2 * pi * r2 / df))
    if (reml) criterion <- criterion + as.numeric(determinant(XX)$modulus)
    list(beta = beta, XX = XX, sigma2 = r2 / df, g = gradient, f = criterion, L = L)
  }
  theta <- unname(getME(fit, "theta"))
  for (step in 1:6) {
    here <- at(theta)
    k <- length(theta)
    J <- matrix(0, k, k)
    for (j in seq_len(k)) {
      h <- 1e-5
      up <- theta; up[j] <- up[j] + h; down <- theta; down[j] <- down[j] - h
      J[, j] <- (at(up)$g - at(down)$g) / (2 * h)
    }
    theta <- theta - solve(J, here$g)
  }
  found <- at(theta)
  stopifnot(max(abs(found$beta / fixef(fit) - 1)) < 1e-5)
  stopifnot(abs(found$f + 2 * as.numeric(logLik(fit))) < 1e-6)
  cov <- found$sigma2 * found$L %*% t(found$L)
  list(
    lme4_beta = unname(fixef(fit)), lme4_theta = unname(getME(fit, "theta")),
    lme4_sigma = sigma(fit), lme4_loglik = as.numeric(logLik(fit)),
    lme4_aic = AIC(fit), lme4_bic = BIC(fit),
    lme4_errors = unname(sqrt(diag(as.matrix(vcov(fit))))),
    theta = theta, beta = unname(found$beta),
    errors = unname(sqrt(diag(found$sigma2 * solve(found$XX)))),
    sigma2 = found$sigma2, covariance = as.vector(cov), criterion = found$f
  )
}

# DerSimonian and Laird's own formulas, on lm or glm of every party.
meta <- function(formula, data, name, family = gaussian()) {
  parts <- lapply(split(data, data$party), function(part) {
    if (family$family == "gaussian") fit <- lm(formula, part) else {
      fit <- glm(formula, family, part)
      # Errors are those of the last weights but one: once more, at the answer.
      for (again in 1:4) fit <- glm(formula, family, part, start = coef(fit))
    }
    coef(summary(fit))[name, 1:2]
  })
  y <- sapply(parts, `[`, 1); w <- 1 / sapply(parts, `[`, 2)^2
  k <- length(y)
  fixed <- sum(w * y) / sum(w); Q <- sum(w * (y - fixed)^2)
  tau2 <- max(0, (Q - (k - 1)) / (sum(w) - sum(w^2) / sum(w)))
  # Random weights need every study; the pooled sums give tau2 first.
  v <- 1 / (1 / w + tau2)
  random <- sum(v * y) / sum(v)
  list(
    k = k, fixed = fixed, fixed_error = 1 / sqrt(sum(w)), Q = Q,
    p = pchisq(Q, k - 1, lower.tail = FALSE), I2 = max(0, (Q - (k - 1)) / Q),
    tau2 = tau2, random = random, random_error = 1 / sqrt(sum(v))
  )
}

big <- within(school, passed <- as.numeric(lang > 40))
big$party <- paste0("g", (match(school$party, unique(school$party)) - 1) %/% 5)
out <- list(
  absorbed = list(
    sleep = absorbed(y ~ x, sleep, "x"),
    schools = absorbed(lang ~ iq + ses, school, c("iq", "ses")),
    weighed = absorbed(lang ~ iq, school, "iq", weights = school$ses)
  ),
  mixed = list(
    sleep_reml = mixed(y ~ x, sleep, "1 + x", TRUE),
    sleep_ml = mixed(y ~ x, sleep, "1 + x", FALSE),
    schools_reml = mixed(lang ~ iq + ses, school, "1", TRUE),
    schools_ml = mixed(lang ~ iq + ses, school, "1", FALSE),
    schools_slope = mixed(lang ~ iq + ses, school, "1 + iq", TRUE),
    oxboys_reml = mixed(height ~ age, boys, "1 + age", TRUE),
    oxboys_ml = mixed(height ~ age, boys, "1 + age", FALSE)
  ),
  meta = list(
    sleep = meta(y ~ x, sleep, "x"),
    schools = meta(lang ~ iq + ses, school, "iq"),
    passed = meta(passed ~ iq, big, "iq", binomial())
  )
)
writeLines(text(out), "sites.json")
