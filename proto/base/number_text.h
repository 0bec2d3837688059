#pragma once
// A floating-point number as text, for people and for programs that read it again.
#include <string>

namespace es {

// The shortest decimal text that reads back as exactly this double, so no digit is lost: "0.1",
// "1000000", "950400.25". With an exponent only below 1e-4 and from 1e15 on: "1e-08", "1e+300".
// What is no number is "nan", "inf" or "-inf".
std::string number_text(double value);

}  // namespace es
