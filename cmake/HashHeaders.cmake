# Writes OUTPUT, a header that defines WMTP_SDK_HEADERS: a hash of the names and contents of the headers in FOLDER.
file(GLOB headers RELATIVE ${FOLDER} ${FOLDER}/*.hpp)
list(SORT headers)
foreach(header ${headers})
  file(SHA256 ${FOLDER}/${header} content)
  string(APPEND all "${header} ${content}\n")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 12 hash)
# A compiler cache finds a precompiled header by its preprocessed text, in which macros do not appear: the declaration does.
file(WRITE ${OUTPUT} "// Generated: a hash over the sdk's headers, for wmtp/fingerprint.hpp.
#pragma once

#define WMTP_SDK_HEADERS ${hash}

namespace wmtp::detail {
struct sdk_headers_${hash};
}
")
