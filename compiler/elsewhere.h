// What people look for who know other frameworks and languages, and what to write here.
#ifndef NNC_COMPILER_ELSEWHERE_H
#define NNC_COMPILER_ELSEWHERE_H

// Each returns a hint, NULL where nothing is known. Not case sensitive.
const char *elsewhere_function(const char *name);   // "Dense": "write linear"
const char *elsewhere_word(const char *word);       // that begins a statement or stands for a value: "return", "None"
const char *elsewhere_module(const char *name);   // before a dot: "torch", "nn", "self"; of any value what a dot means

#endif
