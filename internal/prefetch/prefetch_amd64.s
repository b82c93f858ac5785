#include "textflag.h"

// func Bytes(address uintptr, n int)
TEXT ·Bytes(SB), NOSPLIT, $0-16
	MOVQ address+0(FP), AX
	MOVQ n+8(FP), CX
	ADDQ AX, CX
	ANDQ $~63, AX

next:
	CMPQ AX, CX
	JAE  done
	PREFETCHT0 (AX)
	ADDQ $64, AX
	JMP  next

done:
	RET
