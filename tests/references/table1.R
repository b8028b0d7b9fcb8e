# Tests and quantiles of two real tables, as R has them; run in this folder:
#   Rscript table1.R
# pbc: the Mayo Clinic's trial in primary biliary cholangitis, 1974 to 1984, of R's
#   package survival (Therneau and Grambsch 2000); the 312 patients who were randomised.
# birthwt: births at Baystate Medical Center, Springfield, 1986, of R's package MASS
#   (Hosmer and Lemeshow 1989).
library(survival)
library(MASS)
options(digits = 17)

pbc <- survival::pbc[1:312, c("trt", "age", "sex", "edema", "bili", "chol", "albumin", "platelet", "stage")]
pbc$trt <- ifelse(pbc$trt == 1, "penicillamine", "placebo")
pbc$age <- round(pbc$age, 2)
write.csv(pbc, "table1_pbc.csv", row.names = FALSE, quote = FALSE, na = "")
births <- MASS::birthwt[, c("race", "smoke", "age", "lwt", "ht", "ui", "bwt")]
births$race <- c("white", "black", "other")[births$race]
write.csv(births, "table1_birthwt.csv", row.names = FALSE, quote = FALSE)

test <- function(x) list(statistic = unname(x$statistic), degrees = unname(x$parameter), p = x$p.value)
# Each variable on the rows that have it, as the package tableone takes them.
numbers <- function(y, g) {
  g <- factor(g[!is.na(y)])
  y <- y[!is.na(y)]
  found <- list(
    anova = test(oneway.test(y ~ g, var.equal = TRUE)),
    welch = test(oneway.test(y ~ g)),
    mean = as.list(tapply(y, g, mean)), sd = as.list(tapply(y, g, sd)), n = as.list(table(g))
  )
  fitted <- summary(aov(y ~ g))[[1]]
  stopifnot(all.equal(fitted[["F value"]][1], found$anova$statistic))
  if (nlevels(g) == 2) {
    found$t <- test(t.test(y ~ g, var.equal = TRUE))
    found$welch_t <- test(t.test(y ~ g))
    m <- tapply(y, g, mean); v <- tapply(y, g, var)
    found$smd <- abs(unname(m[1] - m[2])) / sqrt(mean(v))
  }
  found
}
counts <- function(x, g) {
  cells <- table(x, g)
  plain <- suppressWarnings(chisq.test(cells, correct = FALSE))
  found <- list(
    plain = test(plain), cells = unclass(cells),
    v = unname(sqrt(plain$statistic / (sum(cells) * (min(dim(cells)) - 1))))
  )
  if (all(dim(cells) == 2)) found$yates <- test(suppressWarnings(chisq.test(cells)))
  # Yang and Dalton 2012, as the package tableone computes it.
  shares <- prop.table(cells, 2)
  apart <- combn(ncol(cells), 2, function(pair) {
    d <- shares[-1, pair[1]] - shares[-1, pair[2]]
    s <- Reduce(`+`, lapply(pair, function(k) diag(shares[-1, k], nrow(shares) - 1) - outer(shares[-1, k], shares[-1, k]))) / 2
    sqrt(drop(t(d) %*% MASS::ginv(s) %*% d))
  })
  found$smd <- max(apart)
  found
}
# The definition that counts at thresholds prove: the inverse of the distribution function.
quantiles <- function(y, g) lapply(split(y, g), function(x) unname(quantile(x, c(0.25, 0.5, 0.75), type = 1, na.rm = TRUE)))

result <- list(
  R = R.version.string,
  pbc = list(
    missing = as.list(colSums(is.na(pbc))),
    numbers = lapply(pbc[c("age", "bili", "chol", "albumin", "platelet")], numbers, g = pbc$trt),
    counts = lapply(pbc[c("sex", "edema", "stage")], counts, g = pbc$trt),
    quantiles = lapply(pbc[c("age", "bili")], quantiles, g = pbc$trt)
  ),
  birthwt = list(
    numbers = lapply(births[c("age", "lwt", "bwt")], numbers, g = births$race),
    counts = lapply(births[c("smoke", "ht", "ui")], counts, g = births$race),
    quantiles = lapply(births[c("lwt", "bwt")], quantiles, g = births$race),
    by_smoke = lapply(births[c("age", "lwt", "bwt")], numbers, g = births$smoke)
  )
)
writeLines(jsonlite::toJSON(result, digits = NA, auto_unbox = TRUE, pretty = TRUE), "table1.json")
