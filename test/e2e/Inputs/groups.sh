#!/bin/sh
# groups.sh NNC PYTHON FOLDER OUT NAME OPTIMIZER EXTRA BOUND [FLAG…]: the model groups.nn with that optimizer and that other line of the section, trained on the
# host and in the emulator. Prints how far the losses are apart and the launches of groups.
set -e
nnc=$1 python=$2 folder=$3 out=$4 name=$5 bound=$8
sed -e "s/OPTIMIZER/$6/" -e "s/EXTRA/$7/" "$folder/Inputs/groups.nn" > "$out/$name.nn"
shift 8
cd "$out"
"$nnc" $name.nn "$@" -o $name
"$nnc" $name.nn "$@" --target=cuda-emu -o ${name}_emu
./$name train --data data --log $name.jsonl --quiet --save $name.safetensors
./${name}_emu train --data data --log ${name}_emu.jsonl --quiet --save ${name}_emu.safetensors
"$python" "$folder/curves.py" $name.jsonl ${name}_emu.jsonl "$bound"
"$nnc" $name.nn "$@" --target=cuda --emit=kernels | grep -A6 '^// group_' | grep '^// '
