// PythonProgram: a program of ours (host/**/programs) that the user's Python executes. It never imports from the
// working folder, which may contain anything: a `json.py` there would run in place of the library's.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "process/child_process.hpp"

namespace wmtp {

struct UsersPython {
  std::filesystem::path program;  ///< "" if it is not found
  std::string name;               ///< for messages: "python3 in PATH", or what names another one
};

/// The program `named` (a path, or a name in PATH), else the one that the variable WMTP_PYTHON names, else python3 in
/// PATH. Empty names count as unset.
UsersPython users_python(const std::string& named = "");

/// `python` executes the text `program`, which gets `arguments` as sys.argv[1..].
ChildRequest python_child(const std::filesystem::path& python, const std::string& program,
                          const std::vector<std::string>& arguments = {});

/// The arguments with which a Python executes the text `program` without the user's own packages and variables, for
/// programs that judge others.
std::vector<std::string> isolated_python_arguments(const std::string& program,
                                                   const std::vector<std::string>& arguments = {});

struct PythonProgram {
  std::string file;     ///< its name
  std::string purpose;  ///< "converts tables"
  std::string package;  ///< what it imports, as pip names it

  /// Error(usage) if there is no Python.
  ChildRequest request(const std::vector<std::string>& arguments = {}) const;
  /// What to do if Python, or the package, is missing.
  std::string advice() const;
};

}  // namespace wmtp
