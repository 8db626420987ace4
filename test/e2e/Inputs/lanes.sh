# lanes.sh NNC FOLDER NAME MODEL OPTIONS [-D X=Y]...: the model on one lane and, by options of nnc in one word, on several trains to the same bytes, on the host and in the emulator, which finds each wait that is left out.
nnc=$1 folder=$2 name=$3 model=$4 far=$5
shift 5
cd "$folder" || exit 1
train() { "./$1" train --data data --steps 3 --quiet --save "$2.safetensors"; }   # program, checkpoint
same() { cmp "$1.safetensors" "$2.safetensors" || exit 1; }
for target in host cuda-emu; do
  "$nnc" "$model" "$@" --target=$target -o "$name-one" && "$nnc" "$model" "$@" --target=$target $far -o "$name-lanes" || exit 1
  train "$name-one" one && train "$name-lanes" lanes && same one lanes || exit 1
  if [ $target = cuda-emu ]; then
    for order in 1 2 3; do NNC_EMU_LANES=$order train "$name-lanes" lanes && same one lanes || exit 1; done
  fi
  ./"$name-lanes" info --steps > steps
  echo "$name on $target: $(grep -c ' on lane ' steps) copies, the same bytes"
done
# All waits of the training step but those of the copies at its end, which come behind all lanes whether they need it or not.
sed -n '/^train$/,/^$/p' steps | grep -v '^ *[0-9]* *copy .*[0-9]  waits for' > train_steps
waits=$(grep -o 'waits for .*' train_steps | grep -o '[0-9][0-9]*' | wc -l)
for i in $(seq $waits); do
  if NNC_EMU_DROP=$i ./"$name-lanes" bench --steps 1 > log 2>&1 || ! grep -q '^cuda-emu: race: ' log; then
    echo "$name: nobody finds that wait $i of $waits is left out"
    exit 1
  fi
done
./"$name-lanes" bench --steps 1 > log 2>&1 || exit 1
echo "$name: $waits waits left out, one after the other: all found"
