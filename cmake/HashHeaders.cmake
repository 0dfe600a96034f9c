# Writes OUTPUT, a header that defines WMTP_SDK_HEADERS: a hash of the names and contents of the headers in FOLDER.
file(GLOB headers RELATIVE ${FOLDER} ${FOLDER}/*.hpp)
list(SORT headers)
foreach(header ${headers})
  file(SHA256 ${FOLDER}/${header} content)
  string(APPEND all "${header} ${content}\n")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 12 hash)
file(WRITE ${OUTPUT}
  "// Generated: a hash over the sdk's headers, for wmtp/fingerprint.hpp.\n"
  "#pragma once\n\n#define WMTP_SDK_HEADERS ${hash}\n")
