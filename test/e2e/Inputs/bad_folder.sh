# Tries to write every kind of output into the folder `full`, first read-only, then full. Usage: bad_folder.sh NNC NNC_OPT MODEL.nn,
# in a folder with the compiled program `text`, its data and weights, where mounts are nobody else's.
set -u
nnc=$1 nnc_opt=$2 model=$3
export TMPDIR=$PWD

"$nnc" "$model" --emit=nn -o text.mlir || exit 1
./text export --init weights.safetensors || exit 1

left() {
  case $(ls -A full) in
    "") echo "nothing left" ;;
    old) cmp -s old full/old && echo "only old" || echo "old was changed" ;;
    *) echo "left behind: $(ls -A full)" ;;
  esac
}
try() {
  "$@"
  echo "[$?] $(left)"
}
try_all() {
  try "$nnc" "$model" -o full/text
  try "$nnc" "$model" --emit=asm -o full/text.txt
  try "$nnc" "$model" --emit=nn -o full/text.txt
  try "$nnc_opt" text.mlir -o full/text.txt
  try ./text train -q --data data/good --save full/text.safetensors
  try ./text export --weights weights.safetensors full/weights.safetensors
  try ./text predict --weights weights.safetensors --inputs data/good.safetensors --outputs full/out.safetensors
  try ./text train -q --data data/good --save text.safetensors --log full/log.jsonl
}

mount -t tmpfs -o ro none full || exit 1
echo "== read-only"
try_all
umount full

mount -t tmpfs -o size=4k none full || exit 1
head -c 4096 /dev/zero > old
cp old full/old
echo "== full"
try_all
umount full

mount -t tmpfs -o size=400k none full || exit 1
echo "== too small"
try "$nnc" "$model" -o full/text
umount full
