set pagination off
set width 0
set debuginfod enabled off
break main
run 3
backtrace
print rounds
print ((char *(*)(unsigned long))malloc)(300000) != 0
print ((char *(*)(unsigned long))malloc)(30) != 0
watch rounds
continue
print rounds
delete
continue
