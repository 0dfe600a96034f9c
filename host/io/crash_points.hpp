// The points of a save at which its state on disk changes. Tests kill a rank at one of them to simulate a power cut:
// WMTP_KILL_AT_SAVE = "POINT", "POINT:RANK" or "POINT:RANK:TIME" sends SIGKILL to rank RANK (default 0) when it reaches
// the point for the TIME-th time (default 1); "POINT:RANK:TIME:stop" SIGSTOP. Read once per process.
//
// point              rank  state after a crash there
//   copied             each  nothing new
//   draft_made         0     an empty draft
//   half_a_file        each  a draft with a part of that rank's file
//   file_written       each  the complete file, not yet durable
//   file_synced        each  the complete file, unknown to rank 0
//   files_complete     0     every rank's file, no manifest
//   manifest_written   0     a complete draft, not yet durable as a folder
//   folder_synced      0     a complete draft
//   renamed            0     the checkpoint; after a power cut possibly the draft
//   published          0     the checkpoint, and more checkpoints than `keep`
//   set_for_deletion   0     the checkpoint; an older one as a draft
//   deleted            0     the checkpoint, not yet in the log
#pragma once

namespace wmtp {

enum class CrashPoint {
  copied,
  draft_made,
  half_a_file,
  file_written,
  file_synced,
  files_complete,
  manifest_written,
  folder_synced,
  renamed,
  published,
  set_for_deletion,
  deleted
};

/// [any thread] Does nothing unless a test selected this point.
void crash_here(CrashPoint point);

/// Error(usage) with all names if the variable names an unknown point. [before the first save]
void check_crash_points();

}  // namespace wmtp
