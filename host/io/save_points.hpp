// The points of a save between which its state on the disk differs. A test ends a rank at one of them, as a power cut
// or the system would: WMTP_KILL_AT_SAVE = "POINT", "POINT:RANK" or "POINT:RANK:TIME" sends SIGKILL to rank RANK (0)
// when it comes there for the TIME-th time (1). Read here only, once for each process.
//
//   point              rank  what a crash there leaves
//   copied             each  nothing new
//   draft_made         0     an empty draft
//   half_a_file        each  a draft with a part of that rank's file
//   file_written       each  the whole file, not yet durable
//   file_synced        each  the whole file, of which rank 0 has not heard
//   files_complete     0     every rank's file, no manifest
//   manifest_written   0     a whole draft, not yet durable as a folder
//   folder_synced      0     a whole draft
//   renamed            0     the checkpoint; after a power cut perhaps the draft
//   published          0     the checkpoint, and more of them than are to be kept
//   set_for_deletion   0     the checkpoint; an older one as a draft
//   deleted            0     the checkpoint, of which the log has not heard
#pragma once

namespace wmtp {

enum class SavePoint {
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

/// [any thread] Does nothing unless a test asked for this point.
void reached(SavePoint point);

/// Error(usage) naming all points when the variable asks for one that is none. [before the first save]
void check_save_points();

}  // namespace wmtp
