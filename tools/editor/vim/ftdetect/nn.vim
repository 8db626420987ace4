" Files of nnc's language
autocmd BufRead,BufNewFile *.nn setfiletype nn
