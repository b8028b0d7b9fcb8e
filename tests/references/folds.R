# Reference values of tests/questions/test_folds.py: Rscript folds.R, in this folder.
# R 4.2.2, AER 1.2-10. Each fold is predicted by glm() of all other rows, run until
# nothing changes. Folds are given: the column fold of a table is how rows were dealt
# with split = 7, and the tests check that it still is. Data, dealt to four parties:
# AER::SwissLabor (Gerfin 1996), AER::DoctorVisits (Cameron and Trivedi 1986; every
# second row), AER::CPS1985 (Berndt 1991).
suppressMessages(library(AER))

digits <- function(x) formatC(unname(c(x)), digits = 17, format = "g")
plain <- function(x) if (is.list(x)) paste0("{", paste0('"', names(x), '": ', sapply(x, plain), collapse = ",\n "), "}") else
  paste0("[", paste(digits(x), collapse = ", "), "]")

# The tables, without folds where there are none yet.
tables <- function() {
  data(SwissLabor, DoctorVisits, CPS1985, package = "AER")
  women <- with(SwissLabor, data.frame(works = as.numeric(participation == "yes"),
    income = round(income, 6), age, education, young = as.numeric(youngkids > 0)))
  visits <- with(DoctorVisits[seq(1, 5190, 2), ], data.frame(visits, age, illness, reduced))
  wages <- with(CPS1985, data.frame(wage, education, experience))
  list(women = women, visits = visits, wages = wages)
}

write_tables <- function() for (name in names(tables())) {
  rows <- tables()[[name]]
  rows <- data.frame(site = paste0("s", seq_len(nrow(rows)) %% 4), rows)
  write.csv(rows, paste0("folds_", name, ".csv"), row.names = FALSE, quote = FALSE)
}

tried <- function(name, formula, family) {
  rows <- read.csv(paste0("folds_", name, ".csv"))
  rows$y <- rows[[all.vars(formula)[1]]]
  control <- glm.control(epsilon = 1e-15, maxit = 200)
  said <- bare <- numeric(nrow(rows)); found <- list()
  for (k in sort(unique(rows$fold))) {
    others <- rows[rows$fold != k, ]; here <- rows$fold == k
    fit <- glm(formula, family, others, control = control)
    for (again in 1:3) fit <- glm(formula, family, others, start = coef(fit), control = control)
    said[here] <- predict(fit, rows[here, ], type = "response")
    bare[here] <- mean(others$y)
    found <- c(found, coef(fit))
  }
  one <- rep(1, nrow(rows))
  loss <- family$dev.resids(rows$y, said, one); null <- family$dev.resids(rows$y, bare, one)
  square <- (rows$y - said)^2
  n <- tapply(one, rows$fold, sum)
  # As glmnet's cv.glmnet has cvm and cvsd.
  error <- function(x) {
    by <- tapply(x, rows$fold, mean)
    sqrt(weighted.mean((by - mean(x))^2, n) / (length(n) - 1))
  }
  list(coefficients = unlist(found), rows = n,
       deviance = tapply(loss, rows$fold, sum), null = tapply(null, rows$fold, sum),
       squared = tapply(square, rows$fold, sum), explained = 1 - sum(loss) / sum(null),
       mean_deviance = mean(loss), deviance_error = error(loss),
       mean_squared = mean(square), squared_error = error(square))
}

if (!file.exists("folds_women.csv")) write_tables() else writeLines(plain(list(
  women = tried("women", works ~ income + age + education + young, binomial()),
  visits = tried("visits", visits ~ age + illness + reduced, poisson()),
  wages = tried("wages", wage ~ education + experience, Gamma("log")))), "folds.json")
