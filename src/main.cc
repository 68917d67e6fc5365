#include "cli/cli.h"

int main(int argc, char** argv) { return graphpipe::run_cli(argc, argv); }
