//! Distribution of the shown lines among files.

/// Minimum number of lines for the first files.
const LEAST: u64 = 3;

/// Computes the number of lines for each file, at most `limit` in total.
///
/// The files share the limit equally; the first files come first.
pub(super) fn share(counts: &[u64], limit: usize, most_files: usize) -> Vec<usize> {
    let counts = &counts[..counts.len().min(most_files)];
    let limit = limit as u64;
    let (mut low, mut high) = (1, limit.max(1));
    // Binary search for the largest equal share.
    while low < high {
        let middle = (low + high).div_ceil(2);
        let together: u64 = counts.iter().map(|count| (*count).min(middle)).sum();
        if together <= limit { low = middle } else { high = middle - 1 }
    }
    let most = low.max(LEAST);
    let mut left = limit;
    let mut shares = Vec::new();
    for count in counts {
        let share = (*count).min(most).min(left);
        if share == 0 {
            break;
        }
        left -= share;
        shares.push(share as usize);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn one_large_file_leaves_room_for_the_others() {
        assert_eq!(share(&[1000, 2, 5], 20, 9), [13, 2, 5]);
        assert_eq!(share(&[1, 2], 20, 9), [1, 2]);
        assert_eq!(share(&[1000], 20, 9), [20]);
        assert_eq!(share(&[9, 9, 9, 9], 10, 9), [3, 3, 3, 1]);
        assert_eq!(share(&[9, 9, 9, 9], 100, 2), [9, 9]);
        assert_eq!(share(&[9, 9], 1, 9), [1]);
        assert_eq!(share(&[], 20, 9), [0; 0]);
    }

    #[test]
    fn the_limit_is_never_exceeded() {
        for limit in 1..40 {
            for counts in [&[1, 1, 1, 1, 1][..], &[7, 30, 2], &[100, 1, 100], &[40]] {
                let shares = share(counts, limit, 9);
                let together: usize = shares.iter().sum();
                assert!(together <= limit && together > 0, "{counts:?} {limit}: {shares:?}");
                assert!(shares.iter().zip(counts).all(|(share, count)| *share as u64 <= *count));
            }
        }
    }
}
