package work

// Duel is a comparison of seglog with Kafka's own classes on the same files, by turns, that
// package kafka makes. It is none of the workloads, since no other store can take part;
// its results are, in the same tables.
type Duel struct {
	ID, Title string
	// Records over Keys are compacted, or an index of Entries is looked up in.
	Records, Keys, Entries int
}

// Duels are all of them.
func Duels() []Duel {
	return []Duel{
		{ID: "duel-cleaner-100k", Title: "compact the same files as Kafka's cleaner, 2 M records over 100k keys", Records: 2_000_000, Keys: 100_000},
		{ID: "duel-cleaner-2m", Title: "compact the same files as Kafka's cleaner, 2 M records over 2m keys", Records: 2_000_000, Keys: 2_000_000},
		{ID: "duel-index-64mib", Title: "index look-up alone, JMH for Kafka's, the index of 64 MiB", Entries: 14_600},
		{ID: "duel-index-1gib", Title: "index look-up alone, JMH for Kafka's, the index of 1 GiB", Entries: 233_000},
	}
}

// Figure is what a duel measures.
func (d Duel) Figure() string {
	if d.Entries > 0 {
		return "ns/op"
	}
	return "rec/s"
}
