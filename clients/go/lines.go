package encke

import (
	"bufio"
	"errors"
)

var errLongLine = errors.New("encke: a line is longer than any that the server sends")

// readLine reads a line without its end, which lives until the next one is read. What is no whole
// line at the end is none: half an event is no event.
func readLine(reader *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := reader.ReadSlice('\n')
		if err == nil && line == nil {
			return part[:len(part)-1], nil
		}
		if len(line)+len(part) > lineBytesMax {
			return nil, errLongLine
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}
