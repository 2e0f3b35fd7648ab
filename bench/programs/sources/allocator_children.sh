# Starts programs with an allocator as children: allocator_children.sh LINKED PLAIN LIBRARY.
status=0
"$1" || status=$?
echo "linked: $status"
status=0
LD_PRELOAD="$3${LD_PRELOAD:+:$LD_PRELOAD}" "$2" || status=$?
echo "before: $status"
status=0
LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}$3" "$2" || status=$?
echo "behind: $status"
