# far_faults.sh UNIT CALL ERROR AT...: a training whose far arena is in the folder away, where the AT-th call goes wrong: it says what and ends with status 1, or is killed, or a save is tried again; nothing is
# left in the folder; the checkpoint is a whole one, and resumed, the training ends with the bits of whole.safetensors.
unit=$1 call=$2 error=$3
shift 3
train() { ./net train --data data --steps 6 --save-every 2 -q --far away --save part.safetensors "$@"; }
for at in "$@"; do
  rm -f part*
  env LD_PRELOAD="$unit/fault_files.so" ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0:$ASAN_OPTIONS" FAULT_PATH=away FAULT_CALL=$call FAULT_ERROR=$error FAULT_AT=$at \
    ./net train --data data --steps 6 --save-every 2 -q --far away --save part.safetensors > log 2>&1
  status=$?
  if [ $error = kill ]; then test $status -eq 137; else test $status -eq 1 || grep -q 'training goes on; the next save is tried' log; fi && { [ $error = kill ] || grep -q ' error: far arena: .*away: Input/output error' log; } || { echo "$call $at: status $status"; cat log; exit 1; }
  test -z "$(ls -A away)" || { echo "$call $at: a file is left"; exit 1; }
  if [ -e part.safetensors ]; then train --resume > log 2>&1; else train > log 2>&1; fi || { echo "$call $at: not resumed"; cat log; exit 1; }
  cmp whole.safetensors part.safetensors || exit 1
  ls part* | grep -qv '^part.safetensors$' && { ls part*; exit 1; }
done
echo "$call $error: $# times, whole and resumed"
