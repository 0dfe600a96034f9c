# wmtp_add_pytest(NAME FILES TIMEOUT [SERIAL]): adds files of Python tests as one ctest test; together they import their
# libraries once. SERIAL: no other test runs at the same time. The others wait for their processes often enough that
# `make test` runs one more of them than there are cores; those with the longest TIMEOUT start first, as long as ctest
# knows no times of an earlier run. PyTorch and the programs that a test starts compute on one thread: the threads of
# their small models would mostly wait for each other, and for cores that other tests use. parity.layouts, the engine's
# and the plugins' tests compute on several. The slowest cases are in Testing/Temporary/LastTest.log.
set(WMTP_PYTHON ${PROJECT_SOURCE_DIR}/.venv/bin/python)
if(NOT EXISTS ${WMTP_PYTHON})
  set(WMTP_PYTHON python3)
endif()
function(wmtp_add_pytest name files timeout)
  cmake_parse_arguments(PARSE_ARGV 3 arg "SERIAL" "" "")
  list(TRANSFORM files PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  add_test(NAME ${name} COMMAND ${WMTP_PYTHON} -B -m pytest -q --durations=20 --durations-min=1 ${files})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} COST ${timeout} RUN_SERIAL ${arg_SERIAL}
    SKIP_RETURN_CODE 5  # pytest: no test collected (see support/needs_torch.py)
    # Plugins of pytest that other packages bring along are not used, and take time to load.
    ENVIRONMENT "WMTP_BUILD=${PROJECT_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1;PYTEST_DISABLE_PLUGIN_AUTOLOAD=1;\
OMP_NUM_THREADS=1;OMP_WAIT_POLICY=passive")
endfunction()
