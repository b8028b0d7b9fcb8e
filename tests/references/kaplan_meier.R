# Reference values for Kaplan-Meier curves and the log-rank test.
#
#     Rscript kaplan_meier.R        (in this folder; R 4.3 or later, survival 3.5)
#
# Data, both from R's package survival:
#   veteran  137 men with lung cancer, by type of cell (Kalbfleisch and Prentice, 1980)
#   colon    929 patients with colon cancer, deaths, by treatment (Moertel et al., 1990)
#
# Each is done at every time that occurs, and on a coarse grid with times rounded up to
# it and cut off at its last time.
suppressMessages(library(survival))

sets <- list(
  veteran = with(veteran, data.frame(time, event = status, group = celltype)),
  colon = with(subset(colon, etype == 2),
               data.frame(time, event = status, group = rx))
)
grids <- list(veteran = c(30, 60, 90, 120, 180, 240, 365),
              colon = c(182, 365, 547, 730, 1095, 1460, 1825, 2190, 2555))

number <- function(x) ifelse(is.finite(x), sprintf("%.17g", x), "null")
listed <- function(x) paste0("[", paste(number(x), collapse = ", "), "]")
object <- function(...) {
  parts <- list(...)
  paste0("{", paste0('"', names(parts), '": ', unlist(parts), collapse = ", "), "}")
}

curve <- function(data, group, end) {
  part <- if (is.na(group)) data else data[data$group == group, ]
  types <- c("log-log", "log", "plain")
  fits <- lapply(types, function(type)
    survfit(Surv(time, event) ~ 1, part, conf.type = type))
  fit <- fits[[1]]
  # Twenty times of a long curve are enough to keep.
  n <- length(fit$time)
  at <- unique(round(seq(1, n, length.out = min(n, 20))))
  bands <- lapply(fits, function(one) object(low = listed(one$lower[at]),
                                             high = listed(one$upper[at])))
  quantiles <- lapply(fits, function(one) {
    q <- quantile(one, probs = c(0.25, 0.5, 0.75))
    object(value = listed(q$quantile), low = listed(q$lower), high = listed(q$upper))
  })
  names(bands) <- names(quantiles) <- types
  mean <- survival:::survmean(fit, rmean = end)$matrix
  object(time = listed(fit$time[at]), n_risk = listed(fit$n.risk[at]),
         n_event = listed(fit$n.event[at]), survival = listed(fit$surv[at]),
         std_err = listed(summary(fit, times = fit$time)$std.err[at]),
         bands = do.call(object, bands), quantiles = do.call(object, quantiles),
         mean = number(mean[["rmean"]]), mean_se = number(mean[["se(rmean)"]]))
}

analysed <- function(data, end) {
  levels <- levels(factor(data$group))
  found <- lapply(c(NA, levels), function(g) curve(data, g, end))
  names(found) <- c("all rows", levels)
  test <- survdiff(Surv(time, event) ~ group, data)
  object(curves = do.call(object, found),
         log_rank = object(observed = listed(test$obs), expected = listed(test$exp),
                           statistic = number(test$chisq), p = number(test$pvalue)))
}

on_grid <- function(data, grid) {
  place <- findInterval(data$time, grid, left.open = TRUE) + 1
  late <- place > length(grid)
  data$event[late] <- 0
  data$time <- grid[pmin(place, length(grid))]
  data
}

results <- lapply(names(sets), function(name) {
  data <- sets[[name]]
  write.csv(data, paste0("kaplan_meier_", name, ".csv"), row.names = FALSE, quote = FALSE)
  grid <- grids[[name]]
  object(grid = listed(grid),
         exact = analysed(data, max(data$time)),
         coarse = analysed(on_grid(data, grid), max(grid)))
})
names(results) <- names(sets)
writeLines(do.call(object, results), "kaplan_meier.json")
