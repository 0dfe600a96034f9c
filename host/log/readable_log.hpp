// Opens a log for reading, also where its folder cannot be written: there SQLite cannot make the shared memory (-shm)
// that a log in WAL mode is read with. Without a -wal file the log is complete without it. Otherwise a private copy of
// both files is read, which is removed with the connection.
#pragma once

#include <filesystem>
#include <memory>

#include "io/scratch_folder.hpp"
#include "log/database.hpp"

namespace wmtp {

struct ReadableLog {
  std::unique_ptr<ScratchFolder> copy;  ///< of the files, if they are read from one
  Database database;
};

/// [the file exists] The connection waits up to `patience` for locks. Error(storage) if the file cannot be read, also
/// if a copy would be needed that is larger than 1 GiB or has no place in the temporary folder.
ReadableLog open_log_for_reading(const std::filesystem::path& path, std::chrono::milliseconds patience);

}  // namespace wmtp
