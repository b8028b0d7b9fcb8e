# Reference values for absorbed effects in a panel: traffic deaths of 48 US states.
#
# Data: AER::Fatalities (Stock and Watson 2007: seven years of each state), where
# states differ far more from each other than a state does from year to year.
#
#   Rscript absorb.R     writes absorb_fatalities.csv and absorb.json
suppressMessages(library(AER))
data(Fatalities)
options(digits = 17)

panel <- with(Fatalities, data.frame(
  party = state, rate = signif(fatal / pop * 1e4, 12), beertax, unemp, income, miles
))
write.csv(panel, "absorb_fatalities.csv", row.names = FALSE, quote = FALSE)
panel <- read.csv("absorb_fatalities.csv")
slopes <- c("beertax", "unemp", "income", "miles")
fit <- lm(rate ~ beertax + unemp + income + miles + factor(party), data = panel)
found <- coef(summary(fit))[slopes, ]
line <- function(x) paste(sprintf("%.17g", x), collapse = ", ")
writeLines(sprintf(
  '{"coefficients": [%s],\n"errors": [%s]}', line(found[, 1]), line(found[, 2])
), "absorb.json")
