// The user's Python, and how this program starts it: a program of ours never imports from the working folder, which may
// contain anything. A `json.py` there would run in place of the library's.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "process/child_process.hpp"

namespace wmtp {

struct UsersPython {
  std::filesystem::path program;  ///< "" if it is not found
  std::string name;               ///< for messages: "python3 in PATH", or what WMTP_PYTHON says
};

/// The program that the variable WMTP_PYTHON names, if it is set and not empty, else python3 in PATH.
UsersPython users_python();

/// `python` executes the text `program`, which gets `arguments` as sys.argv[1..].
ChildRequest python_child(const std::filesystem::path& python, const std::string& program,
                          const std::vector<std::string>& arguments = {});

}  // namespace wmtp
