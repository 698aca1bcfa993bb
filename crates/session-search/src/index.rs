//! The index: one document per entry of a session.
//!
//! The state of each indexed file is stored with tantivy's commits, so that both are consistent.

use std::collections::{BTreeMap, HashMap};

use agent::SessionStore;
use agent::store::StoreError;
use paths::StateDir;
use serde::{Deserialize, Serialize};
use tantivy::collector::TopDocs;
use tantivy::query::{BooleanQuery, Occur, PhraseQuery, TermQuery};
use tantivy::schema::{
    Field, IndexRecordOption, STORED, STRING, Schema, TextFieldIndexing, TextOptions, Value as _,
};
use tantivy::tokenizer::{BoxTokenStream, Token, TokenStream, Tokenizer};
use tantivy::{Index, IndexWriter, ReloadPolicy, TantivyDocument, Term};
use xxhash_rust::xxh3::xxh3_128;

use crate::directory::Files;
use crate::query::{LONGEST, Part, Query, each_run, joined, parts};
use crate::{Failed, texts};

/// Version of the schema and tokenizer; an index of another version is rebuilt.
const FORMAT: u32 = 3;
/// Memory of the indexing thread in bytes.
const HEAP: usize = 50_000_000;
const WORDS: &str = "words";

/// The payload of each commit.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Known {
    format: u32,
    files: BTreeMap<String, KnownFile>,
}

/// The indexed part of a session file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KnownFile {
    modified_ms: u64,
    size: u64,
    /// Number of the indexed bytes; `hash` is their hash.
    ///
    /// The indexed bytes are complete lines of the newest format version.
    bytes: usize,
    hash: String,
    /// Its session and the parent session.
    session: String,
    parent: Option<String>,
}

pub(crate) struct SessionIndex {
    index: Index,
    fields: Fields,
    known: Known,
}

#[derive(Clone, Copy)]
struct Fields {
    file: Field,
    entry: Field,
    timestamp: Field,
    text: Field,
}

/// Matching entries, unordered.
pub(crate) struct Found {
    pub entries: Vec<FoundEntry>,
    pub only_some_words: bool,
}

pub(crate) struct FoundEntry {
    pub file: String,
    pub entry: String,
    pub timestamp: String,
    pub score: f32,
    /// Number of existing ancestors of its session.
    pub forks: usize,
}

impl SessionIndex {
    /// Opens or creates the index. `Err` if it is damaged or has another format.
    pub fn open(dir: StateDir) -> Result<SessionIndex, Failed> {
        let mut schema = Schema::builder();
        let words = TextFieldIndexing::default()
            .set_tokenizer(WORDS)
            .set_index_option(IndexRecordOption::WithFreqsAndPositions);
        let fields = Fields {
            file: schema.add_text_field("file", STRING | STORED),
            entry: schema.add_text_field("entry", STORED),
            timestamp: schema.add_text_field("timestamp", STORED),
            text: schema.add_text_field("text", TextOptions::default().set_indexing_options(words)),
        };
        let index = Index::open_or_create(Files(dir), schema.build())?;
        let damaged = index.validate_checksum()?;
        if !damaged.is_empty() {
            return Err(Failed::Index(format!("it has damaged files: {damaged:?}")));
        }
        index.tokenizers().register(WORDS, Words);
        let known = match index.load_metas()?.payload {
            None => Known { format: FORMAT, files: BTreeMap::new() },
            Some(known) => serde_json::from_str(&known)
                .map_err(|error| Failed::Index(format!("its state cannot be read: {error}")))?,
        };
        if known.format != FORMAT {
            return Err(Failed::Index(format!("it has format {}", known.format)));
        }
        Ok(SessionIndex { index, fields, known })
    }

    /// Indexes changes of the session files.
    ///
    /// `Err` if a file was deleted, so that the index is rebuilt without it.
    pub fn update(&mut self, store: &SessionStore, warnings: &mut Vec<String>) -> Result<(), Failed> {
        let files = store.files()?;
        if let Some(gone) = self.known.files.keys().find(|name| files.iter().all(|file| file.name != **name))
        {
            return Err(Failed::Index(format!("{gone} was deleted")));
        }
        let mut writer: Option<IndexWriter> = None;
        for file in files {
            let known = self.known.files.get(&file.name);
            if known.is_some_and(|it| (it.modified_ms, it.size) == (file.modified_ms, file.size)) {
                continue;
            }
            let session = match store.load_file(&file.name) {
                Ok(session) => session,
                Err(error @ StoreError::Unreadable { .. }) => {
                    warnings.push(error.to_string());
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let writer = match &mut writer {
                Some(writer) => writer,
                none => none.insert(self.index.writer_with_num_threads(1, HEAP)?),
            };
            let text = session.text();
            // Text after the last line break is still being written, or was cut by a crash.
            let whole = text.rfind('\n').map_or(0, |at| at + 1);
            // Files are only appended to; one with another beginning is indexed again.
            let from = match known {
                Some(it) if text.get(..it.bytes).is_some_and(|text| hash(text) == it.hash) => it.bytes,
                Some(_) => {
                    writer.delete_term(Term::from_field_text(self.fields.file, &file.name));
                    0
                }
                None => 0,
            };
            for entry in session.entries.iter().filter(|it| it.line.start >= from && it.line.end < whole) {
                let Some((_, text)) = texts::of(&session, entry) else { continue };
                let mut document = TantivyDocument::new();
                document.add_text(self.fields.file, &file.name);
                document.add_text(self.fields.entry, &entry.id);
                document.add_text(self.fields.timestamp, &entry.timestamp);
                document.add_text(self.fields.text, &text);
                writer.add_document(document)?;
            }
            let known = KnownFile {
                modified_ms: file.modified_ms,
                size: file.size,
                bytes: whole,
                hash: hash(&text[..whole]),
                session: session.header.id.clone(),
                parent: session.header.parent_session.clone(),
            };
            self.known.files.insert(file.name, known);
        }
        if let Some(mut writer) = writer {
            let known =
                serde_json::to_string(&self.known).map_err(|error| Failed::Index(error.to_string()))?;
            let mut commit = writer.prepare_commit()?;
            commit.set_payload(&known);
            commit.commit()?;
            writer.wait_merging_threads()?;
        }
        Ok(())
    }

    pub fn search(&self, query: &Query, limit: usize) -> Result<Found, Failed> {
        let reader = self.index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        let searcher = reader.searcher();
        let forks = self.forks();
        let ask = |wanted: Occur| -> Result<Vec<FoundEntry>, Failed> {
            let mut parts: Vec<(Occur, Box<dyn tantivy::query::Query>)> = Vec::new();
            parts.extend(query.wanted.iter().map(|words| (wanted, self.part(words))));
            parts.extend(query.unwanted.iter().map(|words| (Occur::MustNot, self.part(words))));
            let top = TopDocs::with_limit(limit).order_by_score();
            let found = searcher.search(&BooleanQuery::new(parts), &top)?;
            let entry = |(score, address)| {
                let document: TantivyDocument = searcher.doc(address)?;
                let text = |field| {
                    let value = document.get_first(field);
                    value.and_then(|value| value.as_str()).unwrap_or_default().to_owned()
                };
                let Fields { file, entry, timestamp, .. } = self.fields;
                let file = text(file);
                let forks = forks.get(file.as_str()).copied().unwrap_or_default();
                Ok(FoundEntry { file, entry: text(entry), timestamp: text(timestamp), score, forks })
            };
            found.into_iter().map(entry).collect()
        };
        let entries = ask(Occur::Must)?;
        if !entries.is_empty() || query.wanted.len() < 2 {
            return Ok(Found { entries, only_some_words: false });
        }
        let entries = ask(Occur::Should)?;
        Ok(Found { only_some_words: !entries.is_empty(), entries })
    }

    /// Number of existing ancestors by file.
    fn forks(&self) -> HashMap<&str, usize> {
        let parents: HashMap<&str, Option<&str>> =
            self.known.files.values().map(|it| (it.session.as_str(), it.parent.as_deref())).collect();
        let count = |file: &KnownFile| {
            let ancestors =
                std::iter::successors(file.parent.as_deref().filter(|id| parents.contains_key(id)), |id| {
                    parents.get(id).copied().flatten().filter(|id| parents.contains_key(id))
                });
            // The limit ends cycles of files that name each other.
            ancestors.take(parents.len()).count()
        };
        self.known.files.iter().map(|(name, file)| (name.as_str(), count(file))).collect()
    }

    fn part(&self, part: &Part) -> Box<dyn tantivy::query::Query> {
        let term = |word: &String| Term::from_field_text(self.fields.text, word);
        let single = |word| -> Box<dyn tantivy::query::Query> {
            Box::new(TermQuery::new(term(word), IndexRecordOption::WithFreqs))
        };
        let words: Box<dyn tantivy::query::Query> = match part.words.as_slice() {
            [word] => single(word),
            words => Box::new(PhraseQuery::new(words.iter().map(term).collect())),
        };
        match &part.joined {
            None => words,
            Some(joined) => {
                Box::new(BooleanQuery::new(vec![(Occur::Should, words), (Occur::Should, single(joined))]))
            }
        }
    }
}

fn hash(text: &str) -> String {
    format!("{:032x}", xxh3_128(text.as_bytes()))
}

/// Tokenizer with the words of the tool index, and compounds.
///
/// `header` finds `parseHeader`, and `typescript` finds `TypeScript`.
#[derive(Clone)]
struct Words;

impl Tokenizer for Words {
    type TokenStream<'a> = BoxTokenStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> BoxTokenStream<'a> {
        let (mut words, mut position) = (Vec::new(), 0_usize);
        each_run(text, |run| {
            let parts = parts(run);
            let joined = joined(&parts);
            // Adjacent words are matched by their parts; the compound is at the position of the first.
            words.extend(joined.map(|joined| (joined, position)));
            for part in parts {
                words.push((part, position));
                position += 1;
            }
        });
        words.retain(|(word, _)| word.len() <= LONGEST);
        BoxTokenStream::new(Stream { words: words.into_iter(), token: Token::default() })
    }
}

struct Stream {
    words: std::vec::IntoIter<(String, usize)>,
    token: Token,
}

impl TokenStream for Stream {
    fn advance(&mut self) -> bool {
        let Some((word, position)) = self.words.next() else { return false };
        (self.token.text, self.token.position) = (word, position);
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}
