// The `ltrain` program: the command line of the built-in models.
#include "libtrain/launch/cli.h"

int main(int argc, char** argv) { return lt::cli(argc, argv, {.transformers = true}); }
