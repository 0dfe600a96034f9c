// A static object that writes the file WMTP_CANARY: its absence proves that no code of a plugin ran.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace {
struct Canary {
  Canary() {
    const char* path = std::getenv("WMTP_CANARY");
    if (path == nullptr) return;
    if (std::FILE* file = std::fopen(path, "w")) std::fclose(file);
  }
} const canary;
}  // namespace
