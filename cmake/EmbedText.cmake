# Writes OUTPUT, a C++ file that defines FUNCTION, declared in HEADER. The function returns each of FILES as a raw string,
# by its path relative to FOLDER; by its name if it is outside FOLDER.
set(text "// Generated.\n#include \"${HEADER}\"\n\nnamespace wmtp {\nconst std::map<std::string, std::string>& ${FUNCTION}() {\n  static const std::map<std::string, std::string> files{\n")
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
