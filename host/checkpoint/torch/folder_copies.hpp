// Copies of a checkpoint or model folder on hosts that do not share a file system.
#pragma once

#include <filesystem>

#include "comm/torch/channels.hpp"
#include "comm/torch/file_writers.hpp"

namespace wmtp {

/// [all ranks, collective] Makes the folder complete for every writer: sends each file that a writer lacks, or has
/// damaged, from the lowest writer that has it; then writes rank 0's manifest where it is missing. A crash leaves a
/// folder without a manifest or with a part of the files, which the next call completes. Does nothing if the hosts
/// share all files, or if rank 0's folder has no manifest. Error(data) on every rank, with the host that wrote it, if
/// no writer has a file.
void complete_on_every_host(Channels& channels, const FileWriters& writers, const std::filesystem::path& folder);

}  // namespace wmtp
