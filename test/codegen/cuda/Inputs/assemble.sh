# assemble.sh NNC TEMPORARY MODEL ARCH...: fails where ptxas refuses the PTX, or a kernel spills registers.
nnc=$1 file=$2 model=$3
shift 3
for arch in "$@"; do
  "$nnc" "$model" --target=cuda --gpu-arch="$arch" --emit=ptx -o "$file.ptx" || exit 1
  ptxas -arch="$arch" -v -o "$file.cubin" "$file.ptx" > "$file.log" 2>&1 || { cat "$file.log"; exit 1; }
  if grep 'bytes spill' "$file.log" | grep -v ' 0 bytes spill stores, 0 bytes spill loads'; then exit 1; fi
done
