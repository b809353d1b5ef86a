package diskprobe_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/volumekit/volumekit/util/diskprobe"
)

// A disk that is about to be formatted carries a part of a volume group.
func ExampleProbe() {
	disk := make([]byte, 8<<20)
	copy(disk[512:], "LABELONE")

	found, err := diskprobe.Probe(bytes.NewReader(disk), int64(len(disk)))
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range found {
		fmt.Println("not formatted: it has", f)
	}
	// Output: not formatted: it has lvm2 (member, byte 512)
}
