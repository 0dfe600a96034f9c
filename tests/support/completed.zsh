# zsh -f completed.zsh SCRIPT LINE OUT: loads SCRIPT (a folder: adds it to those of functions) in a zsh and writes its
# completions at the end of LINE to OUT, one per line. The shell runs in its own pseudo-terminal; ^X runs its completion with a compadd that records matches.
zmodload zsh/zpty
zpty -b shell zsh -f -i
say() { zpty -w shell "$1" }
[[ -d $1 ]] && say "fpath=(${(q)1} \$fpath)"
say "autoload -Uz compinit; compinit -u -D; out=${(q)3}"
[[ -d $1 ]] || say "source ${(q)1}"
say 'telling() { local -a given; builtin compadd -O given "$@"; offered+=($given); builtin compadd "$@" }'
say 'tell() {
  offered=(); functions[compadd]=$functions[telling]; _main_complete; unfunction compadd
  print -rl -- $offered > $out.part; mv $out.part $out; compstate[insert]= compstate[list]=
}'
say 'zle -C tell complete-word tell; bindkey "^X" tell'
zpty -w -n shell "$2"$'\C-x'
for ((i = 0; i < 500; ++i)); do [[ -e $3 ]] && break; sleep 0.05; done
zpty -d shell
