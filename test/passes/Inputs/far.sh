# far.sh NNC_OPT MODULE SCRIPT: what `check` says of the module as sed's script changes it; status 70 is its.
sed "$3" "$2" > "$2.changed" && ! cmp -s "$2" "$2.changed" || exit 1
"$1" "$2.changed" --passes=check 2>&1 > "$2.out"
test $? -eq 70
