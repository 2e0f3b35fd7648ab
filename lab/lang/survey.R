# R with a survey in data frames. A visit fits models on the front tables and on one of the round's.
set.seed(1)
tables <- lapply(1:30, function(k) {
  n <- 60000
  data.frame(x = rnorm(n), y = rnorm(n, k), group = sample(letters, n, TRUE))
})
input <- file("stdin")
open(input)
cat("ready\n")
while (length(line <- readLines(input, 1)) == 1) {
  round_number <- as.integer(strsplit(line, " ")[[1]][2])
  total <- 0
  for (k in unique(c(1:5, (round_number * 3 + 0:1) %% 25 + 6))) {
    table <- tables[[k]]
    total <- total + coef(lm(y ~ x, data = table))[[1]]
    total <- total + sum(tapply(table$x, table$group, mean))
    tables[[k]]$x[1:2000] <- tables[[k]]$x[1:2000] + round_number
  }
  cat("done", total, "\n")
}
