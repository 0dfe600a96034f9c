// Answers that cannot be judged here, because Python lacks a module that they import.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "evaluate/evaluation.hpp"

namespace wmtp {

/// Removes the answers that failed for want of a module from `samples` and `judged`, which correspond; returns their
/// number by module. Only widely used modules that the sandbox's Python really lacks: an invented module is a wrong
/// answer, and a program could write the message of any.
std::map<std::string, int64_t> remove_unjudged(std::vector<Sample>& samples, std::vector<Judged>& judged,
                                               const Sandbox& sandbox);

}  // namespace wmtp
