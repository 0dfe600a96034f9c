# Writes OUTPUT, a C++ file that defines FUNCTION of base/embedded.hpp. The function returns each of FILES as a raw
# string, by its path relative to FOLDER; by its name if it is outside FOLDER.
string(CONCAT text "// Generated.\n#include \"base/embedded.hpp\"\n\nnamespace wmtp {\n"
  "const EmbeddedFiles& ${FUNCTION}() {\n  static const EmbeddedFiles files{\n")
foreach(file ${FILES})
  file(RELATIVE_PATH name ${FOLDER} ${file})
  if(name MATCHES "^\\.\\./")
    get_filename_component(name ${file} NAME)
  endif()
  file(READ ${file} content)
  string(APPEND text "      {\"${name}\", R\"~text~(${content})~text~\"},\n")
endforeach()
string(APPEND text "  };\n  return files;\n}\n}  // namespace wmtp\n")
file(WRITE ${OUTPUT} "${text}")
