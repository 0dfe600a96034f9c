# wmtp_add_pytest(NAME FILE TIMEOUT [PROCESSORS]): a file of Python tests as one test of ctest. Those that look at a clock
# count as two processors, so that `ctest -j2` runs nothing beside them. The others say 1: their processes wait for each
# other often enough that two files at once take less time.
set(WMTP_PYTHON ${PROJECT_SOURCE_DIR}/.venv/bin/python)
if(NOT EXISTS ${WMTP_PYTHON})
  set(WMTP_PYTHON python3)
endif()
function(wmtp_add_pytest name file timeout)
  set(processors 2)
  if(ARGC GREATER 3)
    set(processors ${ARGV3})
  endif()
  add_test(NAME ${name} COMMAND ${WMTP_PYTHON} -B -m pytest -q ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} PROCESSORS ${processors}
    SKIP_RETURN_CODE 5  # pytest: no test of this file could be collected (see support/needs_torch.py)
    ENVIRONMENT "WMTP_BUILD=${PROJECT_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1")
endfunction()
