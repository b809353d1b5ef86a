package kubeserver

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
)

// Image is the name of the only container image of a node: busybox, as /busybox, which sleeps.
const Image = "docker.io/local/sleep:1"

// WriteImage writes the image as a docker archive of one static program.
func WriteImage(name, program string) error {
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	layer, err := archive(entry{"busybox", text})
	if err != nil {
		return err
	}
	config := fmt.Sprintf(`{"architecture":"amd64","os":"linux","config":{"Entrypoint":["/busybox","sleep","86400"]},`+
		`"rootfs":{"type":"layers","diff_ids":["sha256:%x"]}}`, sha256.Sum256(layer))
	manifest := fmt.Sprintf(`[{"Config":"config.json","RepoTags":[%q],"Layers":["layer.tar"]}]`, Image)
	image, err := archive(entry{"manifest.json", []byte(manifest)}, entry{"config.json", []byte(config)}, entry{"layer.tar", layer})
	if err != nil {
		return err
	}
	return os.WriteFile(name, image, 0o644)
}

// An entry is a file of an archive.
type entry struct {
	name string
	text []byte
}

// archive returns a tar archive of the files.
func archive(entries ...entry) ([]byte, error) {
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	for _, e := range entries {
		if err := w.WriteHeader(&tar.Header{Name: e.name, Mode: 0o755, Size: int64(len(e.text)), Typeflag: tar.TypeReg}); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return text.Bytes(), err
}
