// wmtp-engine: the program that links LibTorch. wmtp-host starts it.
#include "engine/run/engine_main.hpp"

int main(int argc, char** argv) { return wmtp::engine_main(argc, argv); }
