module github.com/seglog/seglog/interop

go 1.26.0

replace github.com/seglog/seglog => ../

require (
	github.com/seglog/seglog v0.0.0
	github.com/stretchr/testify v1.12.1
	github.com/twmb/franz-go v1.22.3
	github.com/twmb/franz-go/pkg/kadm v1.20.0
	github.com/twmb/franz-go/pkg/kmsg v1.15.1
)

require (
	github.com/edsrzf/mmap-go v1.2.0 // indirect
	github.com/huandu/skiplist v1.2.1 // indirect
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.43.0 // indirect
)
