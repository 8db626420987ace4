# far.sh NNC FOLDER NAME MODEL FAR [-D X=Y]...: the model with and without a far arena, which has the homes of all that persists and what is not read for FAR steps,
# trains to the same bytes, in one run, resumed, and with a checkpoint of the other; evaluates alike; writes no more than was promised and leaves no file.
nnc=$1 folder=$2 name=$3 model=$4 far=$5
shift 5
cd "$folder" || exit 1
mkdir -p away
train() { "./$name-$1" train --data data --steps 3 --quiet --save "$name.$2.safetensors" $3 $4 > "$name.$2.log" 2>&1 || { cat "$name.$2.log"; exit 1; }; }   # program, checkpoint
same() { cmp "$name.$1" "$name.$2" || exit 1; }
"$nnc" "$model" "$@" -o "$name-one" && "$nnc" "$model" "$@" --test-offload="$far" --test-homes=1 -o "$name-far" || exit 1
train one one
train far far --far away && same one.safetensors far.safetensors && same one.log far.log
train one early-one --stop-at=1
train far early-far --stop-at=1
train far early-one --resume && same one.safetensors early-one.safetensors
train one early-far --resume && same one.safetensors early-far.safetensors
"./$name-far" info | grep -q '  persistent    0 bytes, bytes 0 to 0' || exit 1
"./$name-far" bench --steps 1 --check --far away > bench || exit 1
awk '/^far arena .* planned/ { planned = $3; used = $(NF - 1) } /^far arena .* written/ { written = $7 } END { exit !(planned > 0 && used == planned && written <= planned) }' bench || { cat bench; exit 1; }
test -z "$(ls -A away)" || exit 1
echo "$name: $("./$name-far" info --steps | grep -c ' on lane ') copies, the same bytes, far as promised"
