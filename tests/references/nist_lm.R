# NIST's linear regressions by R's lm, for test_nist.py: coefficients, then standard
# errors. It is run by hand, from the root of the repository:
#
#   python tests/nist.py | Rscript tests/references/nist_lm.R > tests/references/nist_lm.txt
#
# With tol = 0 no column is left out. The usual 1e-7 changes Filip alone: lm leaves its
# tenth power out, and no digit is right.

cat("#", R.version.string, R.version$platform, fill = TRUE)
input <- file("stdin")
tables <- list()
for (line in readLines(input)) {
  words <- strsplit(line, "\t")[[1]]
  tables[[words[1]]][[words[2]]] <- words[-(1:2)]
}
close(input)
for (name in names(tables)) {
  parts <- tables[[name]]
  columns <- lapply(parts[names(parts) != "formula"], as.numeric)
  found <- lm(as.formula(parts$formula), data = as.data.frame(columns), tol = 0)
  # It warns of a perfect fit, which some are.
  errors <- suppressWarnings(sqrt(diag(vcov(found))))
  cat(name, sprintf("%.17g", c(coef(found), errors)), fill = 1e6)
}
