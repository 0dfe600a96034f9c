// Limits of the system and of the user (ulimit, control groups) that a program can run into, for messages that name the
// one to raise.
#pragma once

#include <optional>
#include <string>

#include "base/error.hpp"

namespace wmtp {

/// The exception being handled, if the system caused it: a thread or process that could not be started, a file that
/// could not be accessed (std::system_error, with its paths), no more memory (std::bad_alloc), or an Error whose
/// message quotes such a cause. Error(storage), for std::bad_alloc Error(device_memory), with the limit and its value.
/// nullopt for any other exception. [inside a catch block]
std::optional<Error> caught_system_error();

/// The same error as Error(storage) that names the limit, if its message quotes a system's error that a limit causes,
/// also one of Python or of the dynamic linker; else unchanged.
Error with_limit_named(const Error& error);

/// Throws with_limit_named(error) if it names a limit.
void throw_if_limit_caused(const Error& error);

/// The limit because of which this process may have no more memory: "; ulimit -v (…) is …, raise it". "" if there is
/// none.
std::string memory_limit_text();

/// The limits because of which a program that ended with this status of waitpid() may have been ended, or not been
/// loaded: "; ulimit -v (…) is …, raise it". "" if there is none.
std::string limits_text_for_exit(int wait_status);

/// Error(storage) if a stack may be too small for this program. [at its start]
void check_stack_limit();

/// Opens that many descriptors at once and closes them. Error(storage) with the limit if the system allows fewer. For
/// libraries that wait for the other ranks if they cannot open theirs.
void check_descriptors(int count);

/// Starts that many threads at once and ends them. std::system_error if the system allows fewer. For libraries that end
/// the process, or wait for ever, if they cannot start theirs.
void check_threads(int count);

}  // namespace wmtp
