# Matrices, sorting, a linear model and data frames; prints the results.
set.seed(7)
kept <- list()
for (number in 1:30) {
  block <- matrix(runif(1e5 + 3000 * number), ncol = 50)
  kept[[1 + number %% 5]] <- crossprod(block)
}
cat(sprintf("%.6f\n", sum(sapply(kept, sum))))
values <- rnorm(1e6)
cat(sprintf("%.6f %.6f\n", sort(values)[c(1000, 900000)], mean(values)))
frame <- data.frame(x = values[1:50000], kind = rep(letters[1:10], 5000))
frame$y <- 3 * frame$x + as.integer(factor(frame$kind)) + rnorm(50000)
print(round(coef(lm(y ~ x + kind, data = frame)), 6))
print(aggregate(y ~ kind, data = frame, FUN = function(all) round(mean(all), 6)))
for (number in 1:5) invisible(gc())
cat(system("head -c 3000000 /dev/zero | wc -c", intern = TRUE), "\n")
cat("finished\n")
