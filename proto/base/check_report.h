#pragma once
// Where the text of a failed check goes (check.h). By default it is a line on stderr. A program
// that has a log sets this, so that its last line has the form of the log.
#include <string>

namespace es {

// `report` gets "FILE:LINE: check failed: ...", and the process is aborted afterwards. It may be
// called on any thread. nullptr restores the default. Thread-safe.
void report_checks_to(void (*report)(const std::string& text));

}  // namespace es
