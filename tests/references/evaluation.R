# Reference values of tests/questions/test_evaluate.py: Rscript evaluation.R, in this folder.
# R 4.2.2, survival 3.5-3, pROC 1.18.0, MASS. Coefficients are found on some rows and tried on
# others. Data: MASS::Pima.tr and Pima.te (Smith et al. 1988), four parties; survival::mgus2
# (Kyle et al. 2002) and survival::rotterdam (Foekens et al. 2000), fitted to patients
# with odd numbers and tried on those with even ones, four parties; datasets::quakes (Fiji, since 1964), halves, four parties.
suppressMessages({library(survival); library(pROC)})

digits <- function(x) formatC(unname(c(x)), digits = 17, format = "g")
plain <- function(x) if (is.list(x)) paste0("{", paste0('"', names(x), '": ', sapply(x, plain), collapse = ",\n "), "}") else
  paste0("[", paste(digits(x), collapse = ", "), "]")
named <- function(x) as.list(x)

pima <- function() {
  fit <- glm(type ~ npreg + glu + bp + skin + bmi + ped + age, binomial, MASS::Pima.tr,
             control = glm.control(epsilon = 1e-14, maxit = 100))
  test <- MASS::Pima.te
  y <- as.numeric(test$type == "Yes")
  eta <- predict(fit, test)
  p <- plogis(eta)
  edges <- c(0.1, 0.2, 0.4, 0.6)
  bin <- findInterval(p, edges)
  rough <- roc(y, bin, quiet = TRUE, direction = "<")
  again <- glm(y ~ eta, binomial, control = glm.control(epsilon = 1e-14, maxit = 100))
  again <- update(again, start = coef(again))
  n <- tapply(y, bin, length); o <- tapply(y, bin, sum); e <- tapply(p, bin, sum)
  # Each row counts as a yes whose chance reaches the edge.
  table <- sapply(edges, function(at) c(
    sum(p >= at & y == 1) / sum(y == 1), sum(p < at & y == 0) / sum(y == 0),
    sum(p >= at & y == 1) / sum(p >= at), sum(p < at & y == 0) / sum(p < at)))
  write.csv(data.frame(site = paste0("s", seq_along(y) %% 4), test[, 1:7], ill = y),
            "evaluation_pima.csv", row.names = FALSE, quote = FALSE)
  list(coefficients = named(coef(fit)), edges = edges,
       auc = auc(roc(y, p, quiet = TRUE, direction = "<")), binned = auc(rough),
       delong = sqrt(var(rough, method = "delong")),
       ci = as.numeric(ci.auc(rough, method = "delong"))[c(1, 3)],
       brier = mean((y - p)^2), scaled = 1 - mean((y - p)^2) / (mean(y) * (1 - mean(y))),
       calibration = coef(again), errors = sqrt(diag(vcov(again))),
       rows = n, events = o, expected = e,
       hosmer = sum((o - e)^2 / (e * (1 - e / n))),
       sensitivity = table[1, ], specificity = table[2, ], ppv = table[3, ], npv = table[4, ])
}

mgus <- function() {
  rows <- subset(mgus2, complete.cases(mgus2[, c("age", "sex", "hgb", "creat")]))
  rows$time <- pmax(rows$futime, 1)
  fit <- coxph(Surv(time, death) ~ age + hgb + creat, rows[rows$id %% 2 == 1, ], ties = "efron")
  test <- rows[rows$id %% 2 == 0, ]
  eta <- as.matrix(test[, c("age", "hgb", "creat")]) %*% coef(fit)
  times <- c(24, 60, 120, 240)
  edges <- c(2.2, 2.8, 3.2)
  # Nobody is followed beyond the last time.
  late <- test$time > max(times)
  end <- ifelse(late, max(times) + 1, test$time)
  seen <- ifelse(late, 0, test$death)
  within <- findInterval(end, times, left.open = TRUE)
  exact <- concordance(Surv(end, seen) ~ eta, reverse = TRUE)
  rough <- concordance(Surv(within + 1, seen) ~ findInterval(eta, edges), reverse = TRUE)
  write.csv(data.frame(site = paste0("s", (test$id %/% 2) %% 4), test[, c("age", "hgb", "creat")],
                       time = test$time, death = test$death),
            "evaluation_mgus.csv", row.names = FALSE, quote = FALSE)
  list(coefficients = named(coef(fit)), edges = edges, times = times, n = nrow(test),
       exact = exact$concordance, binned = rough$concordance, error = sqrt(rough$var),
       counts = rough$count)
}

rotter <- function() {
  rows <- rotterdam
  fit <- coxph(Surv(dtime, death) ~ age + nodes + grade, rows[rows$pid %% 2 == 1, ], ties = "efron")
  test <- rows[rows$pid %% 2 == 0, ]
  eta <- as.matrix(test[, c("age", "nodes", "grade")]) %*% coef(fit)
  times <- c(1000, 2000, 3000)
  edges <- c(1.9, 2.2, 2.6)
  late <- test$dtime > max(times)
  end <- ifelse(late, max(times) + 1, test$dtime)
  seen <- ifelse(late, 0, test$death)
  within <- findInterval(end, times, left.open = TRUE)
  exact <- concordance(Surv(end, seen) ~ eta, reverse = TRUE)
  rough <- concordance(Surv(within + 1, seen) ~ findInterval(eta, edges), reverse = TRUE)
  write.csv(data.frame(site = paste0("s", (test$pid %/% 2) %% 4), test[, c("age", "nodes", "grade")],
                       time = test$dtime, death = test$death),
            "evaluation_rotterdam.csv", row.names = FALSE, quote = FALSE)
  list(coefficients = named(coef(fit)), edges = edges, times = times, n = nrow(test),
       exact = exact$concordance, binned = rough$concordance, error = sqrt(rough$var),
       counts = rough$count)
}

quake <- function() {
  train <- quakes[1:500, ]; test <- quakes[501:1000, ]
  fit <- lm(stations ~ mag + depth + lat, train)
  said <- unname(predict(fit, test)); y <- test$stations
  write.csv(data.frame(site = paste0("s", seq_along(y) %% 4), test[, c("stations", "mag", "depth", "lat")]),
            "evaluation_quakes.csv", row.names = FALSE, quote = FALSE)
  list(coefficients = named(coef(fit)), r_squared = 1 - sum((y - said)^2) / sum((y - mean(y))^2),
       rmse = sqrt(mean((y - said)^2)), mae = mean(abs(y - said)), bias = mean(said - y),
       calibration = coef(lm(y ~ said)))
}
writeLines(plain(list(pima = pima(), mgus = mgus(), rotterdam = rotter(), quakes = quake())), "evaluation.json")
