#include "textflag.h"

// func Bytes(address uintptr, n int)
TEXT ·Bytes(SB), NOSPLIT, $0-16
	MOVD address+0(FP), R0
	MOVD n+8(FP), R1
	ADD  R0, R1, R1
	AND  $~63, R0, R0

next:
	CMP  R1, R0
	BHS  done
	PRFM (R0), PLDL1KEEP
	ADD  $64, R0, R0
	B    next

done:
	RET
