# zsh -f completed.zsh SCRIPT LINE OUT: loads SCRIPT in a zsh and writes its completions at the end of LINE to OUT, one
# per line. The shell runs in its own pseudo-terminal; ^X runs its completion with a compadd that records matches.
zmodload zsh/zpty
zpty -b shell zsh -f -i
say() { zpty -w shell "$1" }
say "autoload -Uz compinit; compinit -u -D; source ${(q)1}; out=${(q)3}"
say 'telling() { local -a given; builtin compadd -O given "$@"; offered+=($given); builtin compadd "$@" }'
say 'tell() {
  offered=(); functions[compadd]=$functions[telling]; _main_complete; unfunction compadd
  print -rl -- $offered > $out.part; mv $out.part $out; compstate[insert]= compstate[list]=
}'
say 'zle -C tell complete-word tell; bindkey "^X" tell'
zpty -w -n shell "$2"$'\C-x'
for ((i = 0; i < 200; ++i)); do [[ -e $3 ]] && break; sleep 0.05; done
zpty -d shell
